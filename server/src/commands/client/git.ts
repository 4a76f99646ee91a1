import { Command } from 'commander'
import type { BodyInput, ResponseBody } from '../../contract/client.ts'
import type { LocalServer } from './connection.ts'
import { type AppFlags, appCommand, type NamedApp, withNamedApp } from './find-app.ts'
import { secretOfInput } from './input.ts'
import { printable } from './logs.ts'

interface CredentialFlags extends AppFlags {
  readonly gitUrl?: string
}

type GitAccess = ResponseBody<'gitCredentials.get'>

export function gitCommand(local?: LocalServer): Command {
  const part = (name: string, description: string) => appCommand(name, description, local)
  const at = (app: string, flags: AppFlags, work: (app: NamedApp) => Promise<void>) =>
    withNamedApp(local, flags, app, work)
  const forRepository = (command: Command) =>
    command.option('--git-url <address>', 'the repository, if the app is deployed from another one')
  return new Command('git')
    .description("store an app's credentials for its private repository")
    .addCommand(
      part('show', 'print which credentials an app has, and the ssh hosts that it knows').action(
        (app: string, flags: AppFlags) =>
          at(app, flags, async ({ connection, params }) =>
            print(await connection.client.gitCredentials.get({ params })),
          ),
      ),
    )
    .addCommand(
      forRepository(part('token', 'store a token, read from standard input, for an https address')).action(
        (app: string, flags: CredentialFlags) =>
          at(app, flags, async (found) => store(found, { kind: 'token', token: await tokenOfInput() }, flags)),
      ),
    )
    .addCommand(
      forRepository(part('deploy-key', 'make a key for an ssh address, and print its public part')).action(
        (app: string, flags: CredentialFlags) => at(app, flags, (found) => store(found, { kind: 'deploy_key' }, flags)),
      ),
    )
    .addCommand(
      part('remove', 'delete the credentials of an app').action((app: string, flags: AppFlags) =>
        at(app, flags, async ({ connection, params }) => connection.client.gitCredentials.delete({ params })),
      ),
    )
    .addCommand(
      part('forget', 'forget the ssh hosts of an app, so that a new key of a host is accepted').action(
        (app: string, flags: AppFlags) =>
          at(app, flags, async ({ connection, params }) => connection.client.gitCredentials.forgetHosts({ params })),
      ),
    )
}

const tokenOfInput = () => secretOfInput('token', 'fairlead git token shop < token.txt')

async function store(
  { connection, params, name }: NamedApp,
  body: BodyInput<'gitCredentials.set'>,
  { gitUrl }: CredentialFlags,
): Promise<void> {
  const git_url = gitUrl === undefined ? {} : { git_url: gitUrl }
  const stored = await connection.client.gitCredentials.set({ params, body: { ...body, ...git_url } })
  print(stored)
  const { git_credentials: made } = stored
  if (made?.public_key == null) return
  process.stderr.write(
    `Add this key to the repository as a read-only one, and deploy its ssh address:\n  fairlead deploy ${made.git_url} --name ${name}\n`,
  )
}

function print({ git_credentials: stored, known_hosts }: GitAccess): void {
  const lines =
    stored === null
      ? ['no credentials']
      : [
          `${stored.kind === 'token' ? 'token' : 'deploy key'} for ${stored.git_url}, since ${stored.created_at}`,
          ...(stored.public_key === null ? [] : [stored.public_key, `fingerprint ${stored.fingerprint}`]),
        ]
  const hosts = known_hosts.map(({ host, fingerprint, met_at }) => `knows ${host} ${fingerprint}, since ${met_at}`)
  for (const line of [...lines, ...hosts]) process.stdout.write(`${printable(line)}\n`)
}
