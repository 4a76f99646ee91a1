import { Command } from 'commander'
import { createClient } from '../../contract/client.ts'
import { type ClientConfig, readAddress, readClientConfig } from '../../platform/config/client.ts'
import { CommandError } from './command-error.ts'
import { keyByApproval } from './device-login.ts'
import { explain } from './errors.ts'
import { textOfInput } from './input.ts'
import { type LocalServer, withLocalOption } from './local.ts'
import { storeLogin } from './login-file.ts'

/** `fairlead login [URL]`: keeps the address and a key of a server for the other commands of this user. */
export function loginCommand(local?: LocalServer): Command {
  const command = new Command('login')
    .description('keep the address and an API key of a server for deploy, logs, open, env and api')
    .argument(
      local === undefined ? '<url>' : '[url]',
      `the address of the server${local === undefined ? '' : '; without it, a server that runs on this machine'}`,
    )
    .addHelpText(
      'after',
      '\nAt a terminal, you approve the login in the dashboard. A key on standard input is taken as it is:\n' +
        '  fairlead login https://fairlead.example.com < file-with-the-key\n' +
        'The key is kept in ~/.config/fairlead, for you alone.',
    )
  return withLocalOption(command, local).action(
    async (url: string | undefined, { dataDir }: { readonly dataDir?: string }) => {
      const config = url === undefined ? await logInLocally(local, dataDir) : await logIn(url)
      await createClient(config)
        .account.get()
        .catch((error: unknown) => {
          throw explain(error, config)
        })
      process.stdout.write(`Logged in to ${config.baseUrl.replace(/\/v1$/, '')}; kept in ${await storeLogin(config)}\n`)
    },
  )
}

async function logInLocally(local: LocalServer | undefined, dataDir: string | undefined): Promise<ClientConfig> {
  // It is kept when it was tried.
  const login = { kept: async () => undefined, keep: async () => undefined }
  const found = await local?.logIn({ dataDir, hasDataDirectory: false, ...login })
  if (found !== undefined) return found
  throw new CommandError('no server of this machine is found. Give its address, or --data-dir with its data directory.')
}

async function logIn(url: string): Promise<ClientConfig> {
  const baseUrl = readAddress(url)
  const key = process.stdin.isTTY
    ? ''
    : (await textOfInput('a key (with < /dev/null, you approve the login in the dashboard)')).trim()
  if (key !== '') return readClientConfig(url, key)
  const apiKey = await keyByApproval(baseUrl).catch((error: unknown) => {
    throw explain(error, { baseUrl })
  })
  return { baseUrl, apiKey }
}
