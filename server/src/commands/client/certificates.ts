import { readFile, stat } from 'node:fs/promises'
import { Command } from 'commander'
import type { ResponseBody } from '../../contract/client.ts'
import { isId } from '../../contract/ids.ts'
import { CommandError } from './command-error.ts'
import { type Connection, type LocalServer, withLocalOption, withServer } from './connection.ts'
import { findProject } from './find-app.ts'
import { printable } from './logs.ts'

interface Flags {
  readonly dataDir?: string
}

interface UploadFlags extends Flags {
  readonly project?: string
}

type Certificate = ResponseBody<'certificates.get'>

const mostBytes = 1_000_000

export function certificatesCommand(local?: LocalServer): Command {
  const part = (name: string, description: string) => withLocalOption(new Command(name).description(description), local)
  return new Command('certificates')
    .description('the certificates of your apps, and your own ones')
    .addCommand(
      part('list', 'print the certificates, their states and until when they are valid').action((flags: Flags) =>
        withServer(local, flags, list),
      ),
    )
    .addCommand(
      part('upload', 'show your own certificate for all of your domains that it covers')
        .argument('<certificate>', 'a PEM file: the certificate, followed by the certificates of its issuers')
        .argument('<key>', 'a PEM file: its private key, not encrypted')
        .option('--project <name>', 'the name or the id of a project, to use it only for its apps')
        .action((certificate: string, key: string, flags: UploadFlags) =>
          withServer(local, flags, (connection) => upload(connection, certificate, key, flags)),
        ),
    )
    .addCommand(
      part('renew', 'renew a certificate now, which the server does by itself in time')
        .argument('<certificate>', 'its id, or a name that it is for')
        .action((named: string, flags: Flags) => withServer(local, flags, (connection) => renew(connection, named))),
    )
}

async function list({ client }: Connection): Promise<void> {
  for await (const { certificates } of client.certificates.list.pages()) {
    for (const each of certificates) process.stdout.write(`${printable(lineOf(each))}\n`)
  }
}

function lineOf({ id, names, source, status, expires_at, failure }: Certificate): string {
  const validity = expires_at === null ? '-' : `until ${expires_at}`
  return [id, names.join(','), source, status, validity, failure?.message ?? ''].join('\t')
}

async function upload(
  { client }: Connection,
  certificateFile: string,
  keyFile: string,
  { project: named }: UploadFlags,
): Promise<void> {
  const [certificate, private_key] = [await pemOf(certificateFile), await pemOf(keyFile)]
  const project = named === undefined ? undefined : await findProject(client, named)
  if (named !== undefined && project === undefined) throw new CommandError(`There is no project ${named}.`)
  const made = await client.certificates.create({
    body: { certificate, private_key, ...(project !== undefined && { project_id: project.id }) },
  })
  process.stdout.write(`${printable(lineOf(made))}\n`)
}

async function pemOf(path: string): Promise<string> {
  const { size } = await stat(path).catch(() => {
    throw new CommandError(`There is no file ${path}.`)
  })
  if (size > mostBytes) throw new CommandError(`${path} is too large to be a certificate or a key in PEM.`)
  return readFile(path, 'utf8')
}

async function renew({ client }: Connection, named: string): Promise<void> {
  const { id } = isId('certificate', named) ? { id: named } : await certificateNamed(client, named)
  const renewed = await client.certificates.renew({ params: { id } })
  process.stdout.write(`${printable(lineOf(renewed))}\n`)
  const what = renewed.under_way ? `An attempt is under way since ${renewed.attempted_at}, and` : 'The attempt'
  process.stderr.write(`${what} goes on at the server: fairlead certificates list\n`)
}

/** Finds the automatic certificate of a name. Throws a `CommandError` unless there is exactly one. */
async function certificateNamed(client: Connection['client'], name: string): Promise<Certificate> {
  const found: Certificate[] = []
  for await (const { certificates } of client.certificates.list.pages()) {
    found.push(...certificates.filter(({ names, source }) => source === 'automatic' && names.includes(name)))
  }
  const [first, ...others] = found
  if (first === undefined) throw new CommandError(`The server obtains no certificate for ${name}.`)
  if (others.length === 0) return first
  throw new CommandError(
    `There are ${found.length} certificates for ${name}. Give an id: ${found.map(({ id }) => id).join(', ')}`,
  )
}
