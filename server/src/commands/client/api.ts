import { openAsBlob } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { Command, Option } from 'commander'
import { lookup } from 'mrmime'
import { type Operation, operations } from '../../contract/operations.ts'
import { fieldsOf, schemaOf, sentences } from '../../http/reference/json-schema.ts'
import { CommandError } from './command-error.ts'
import { withServer } from './connection.ts'
import { textOfInput } from './input.ts'

type Flags = Readonly<Record<string, string | undefined>>

interface Parameter {
  readonly part: 'params' | 'query'
  readonly name: string
  readonly option: Option
}

/**
 * `fairlead api <operation>`: one command for each operation that an API key may call, generated from the operations.
 */
export function apiCommand(): Command {
  const api = new Command('api')
    .description('call an operation of the API, on this server or another one')
    .usage('<operation> [options]')
    .addHelpText(
      'after',
      '\nFAIRLEAD_URL is the address of the server, FAIRLEAD_API_KEY the key; without them, the server and key of fairlead login are used. ' +
        'The response is printed as JSON.',
    )
  for (const operation of operations) {
    if (operation.access !== 'user') api.addCommand(operationCommand(operation))
  }
  return api
}

function operationCommand(operation: Operation): Command {
  const { name, summary, description } = operation
  const command = new Command(name).summary(summary).description(description)
  const parameters = parametersOf(operation)
  for (const { option } of parameters) command.addOption(option)
  if (operation.body !== undefined) {
    command.option('--data <json>', 'the body; @file reads it from a file, - from standard input')
  }
  if (operation.upload) {
    command.requiredOption('--file <path>', 'the file to upload')
    if (operation.upload === 'multipart/form-data') command.option('--name <name>', 'the name to store it under')
  }
  // Lazy: only the help needs it.
  command.addHelpText('after', () => bodyHelp(operation))
  return command.action((flags: Flags) => call(operation, parameters, flags))
}

function parametersOf({ path, list, query }: Operation): Parameter[] {
  const inPath = [...path.matchAll(/:(\w+)/g)].map(([, name = '']): Parameter => {
    const option = new Option(`${flag(name)} <id>`, `of ${path}`).makeOptionMandatory()
    return { part: 'params', name, option }
  })
  const ofLists = list ? ['limit', 'cursor'] : []
  const inQuery = [...ofLists, ...Object.keys(query?.shape ?? {})].map(
    (name): Parameter => ({ part: 'query', name, option: new Option(`${flag(name)} <value>`, 'of the query') }),
  )
  return [...inPath, ...inQuery]
}

const flag = (name: string) => `--${name.replaceAll('_', '-')}`

async function call(operation: Operation, parameters: readonly Parameter[], flags: Flags): Promise<void> {
  const partOf = (part: Parameter['part']) =>
    Object.fromEntries(
      parameters
        .filter((parameter) => parameter.part === part)
        .map(({ name, option }) => [name, flags[option.attributeName()]]),
    )
  const body = await bodyOf(operation, flags)
  const params: Readonly<Record<string, string | undefined>> = partOf('params')
  const input = { params, query: partOf('query'), ...(body === undefined ? {} : { body }) }
  await withServer(undefined, { project: params['project_id'] }, async ({ client, lastResponse }) => {
    const answer = await methodOf(client, operation)(input)
    if (answer instanceof Response) process.stdout.write(await answer.text())
    else if (answer !== undefined) process.stdout.write(`${JSON.stringify(answer, null, 2)}\n`)
    const cursor = /[?&]cursor=([^&>]+)/.exec(lastResponse()?.headers.get('link') ?? '')?.[1]
    if (cursor !== undefined)
      process.stderr.write(`fairlead: there are more; next page: --cursor ${decodeURIComponent(cursor)}\n`)
  })
}

/** Returns the untyped client method of an operation, which is known only at run time. */
function methodOf(client: unknown, { name }: Operation): (input: unknown) => Promise<unknown> {
  const [group = '', verb = ''] = name.split('.')
  const method = (client as Record<string, Record<string, (input: unknown) => Promise<unknown>>>)[group]?.[verb]
  if (method === undefined) throw new Error(`the client has no ${name}`)
  return method
}

async function bodyOf(operation: Operation, { data, file, name }: Flags): Promise<unknown> {
  if (operation.upload && file !== undefined) {
    const content = await openFile(file)
    return operation.upload === 'multipart/form-data' ? formOf(content, basename(file), name) : content
  }
  if (data === undefined) return undefined
  const given =
    data === '-' ? await textOfInput('the body') : data.startsWith('@') ? await readText(data.slice(1)) : data
  try {
    return JSON.parse(given) as unknown
  } catch {
    // The parser's message would quote the text, which may contain secrets.
    throw new CommandError('--data is not JSON.')
  }
}

async function readText(path: string): Promise<string> {
  return readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(`${path} cannot be read: ${error.code}`)
  })
}

async function openFile(path: string): Promise<Blob> {
  const found = await stat(path).catch(() => undefined)
  if (!found?.isFile()) throw new CommandError(`There is no file ${path}.`)
  return openAsBlob(path, { type: lookup(path) ?? '' })
}

function formOf(file: Blob, filename: string, name: string | undefined): FormData {
  const form = new FormData()
  if (name !== undefined) form.append('name', name)
  form.append('file', file, filename)
  return form
}

const width = 100
const indent = '      '

export function bodyHelp({ body }: Pick<Operation, 'body'>): string {
  if (body === undefined) return ''
  const fields = fieldsOf(schemaOf(body, 'input')).map(({ path, type, required, description, range, details }) =>
    [`  ${path} (${type}${required ? ', required' : ''})`, ...wrap(sentences(description, range, details))].join('\n'),
  )
  return ['', 'Fields of the body:', ...fields].join('\n')
}

function wrap(text: string): string[] {
  const lines: string[] = []
  for (const word of text.replaceAll('`', '').split(' ').filter(Boolean)) {
    const last = lines.at(-1)
    if (last === undefined || last.length + word.length >= width) lines.push(indent + word)
    else lines[lines.length - 1] = `${last} ${word}`
  }
  return lines
}
