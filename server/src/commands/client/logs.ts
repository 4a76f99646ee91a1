import { stripVTControlCharacters } from 'node:util'
import { Command, Option } from 'commander'
import { EventSourceParserStream } from 'eventsource-parser/stream'
import type { Client } from '../../contract/client.ts'
import { foreignAnswer } from '../../contract/client-requests.ts'
import { withVisible } from '../../contract/invisible.ts'
import { sleepUntilAborted } from '../../platform/abort.ts'
import { wholeNumber } from './command-error.ts'
import { type LocalServer, withLocalOption, withServer } from './connection.ts'
import { noAnswer, reasonOfSilence } from './errors.ts'
import { type Deployment, findApp } from './find-app.ts'
import { say } from './wait.ts'

interface LogsFlags {
  readonly follow?: boolean
  readonly all?: boolean
  readonly process?: string
  readonly tail: number
  readonly project?: string
  readonly dataDir?: string
}

export function logsCommand(local?: LocalServer): Command {
  const command = new Command('logs')
    .description('print the log of an app: of its newest deployment, the build first')
    .argument('[app]', 'the name of the app; without it, the app that this folder was deployed as')
    .option('-f, --follow', 'print new lines as they come, until Ctrl+C')
    .addOption(
      new Option('--tail <lines>', 'how many of the last lines').argParser(wholeNumber(0, 100_000)).default(1_000),
    )
    .option(
      '-a, --all',
      'the log of the newest ten releases in place of the newest deployment, and with -f of those to come',
    )
    .option('--process <name>', 'only what a process type or one of its instances printed: worker, worker.2')
    .option('--project <name>', 'the name or the id of the project')
  return withLocalOption(command, local).action((app: string | undefined, flags: LogsFlags) =>
    withServer(local, flags, async (connection) => {
      const { latest } = await findApp(connection, { app, project: flags.project, folder: '.' })
      const { project_id, id, app_id } = latest
      const query = { tail: String(flags.tail), ...(flags.process !== undefined && { process: flags.process }) }
      const print = (line: string) => void process.stdout.write(`${printable(line)}\n`)
      const { client } = connection
      if (flags.follow) {
        const follow = { query, print, say, signal: new AbortController().signal }
        return flags.all
          ? followAppLog(client, { project_id, app_id }, follow)
          : followLog(client, { params: { project_id, id }, ...follow })
      }
      const named = { ...query, processes: 'true' } as const
      const response = await (flags.all
        ? client.logs.read({ params: { project_id, app_id }, query: named })
        : client.deployments.logs({ params: { project_id, id }, query: named }))
      const text = await response.text()
      for (const line of text.split('\n').slice(0, -1)) print(plainLine(line))
    }),
  )
}

/**
 * Removes the process name before a line of the server's text, where `withProcess` shows none. The line that introduces
 * a release has no name.
 */
function plainLine(line: string): string {
  const [, process, text] = /^(build|[a-z][\w-]*\.\d+) (.*)$/s.exec(line) ?? []
  return process === undefined || text === undefined ? line : withProcess(process, text)
}

export interface FollowedLog {
  readonly params: { readonly project_id: string; readonly id: string }
  readonly query: { readonly stream?: 'build' | 'runtime'; readonly process?: string; readonly tail?: string }
  /** Called with each line, which is untrusted text. */
  readonly print: (line: string) => void
  /** Called with messages of the command itself, such as that the server does not answer. */
  readonly say: (line: string) => void
  readonly signal: AbortSignal
  readonly limits?: Limits
}

interface Limits {
  /** A connection may be silent for this long. The server writes at least a comment every 15 s. */
  readonly silenceMs: number
  /** The server may be unreachable for this long. A reboot takes some minutes. */
  readonly patienceMs: number
  readonly reconnectMs: number
}

const usualLimits: Limits = { silenceMs: 60_000, patienceMs: 5 * 60_000, reconnectMs: 1_000 }

/**
 * Prints the log of a deployment as it grows. Resolves when no more lines will come, or `signal` aborts. Rejects when
 * the server has not answered for the time in `limits`.
 */
export function followLog(client: Client, log: FollowedLog): Promise<void> {
  const { params } = log
  return followLines(log, patienceWith(log), {
    open: (headers, signal) => client.deployments.logs({ ...log, headers, signal }),
    async isAlive(signal) {
      await client.deployments.get({ params, signal })
      return true
    },
  })
}

/** Prints the log of an app across releases as it grows. A line introduces each release. */
export function followAppLog(
  client: Client,
  params: { readonly project_id: string; readonly app_id: string },
  log: Omit<FollowedLog, 'params'>,
): Promise<void> {
  const { query } = log
  const { project_id, app_id } = params
  return followLines(log, patienceWith(log), {
    open: (headers, signal) => client.logs.read({ params, query, headers, signal }),
    async isAlive(signal) {
      await client.apps.get({ params: { project_id, id: app_id }, signal })
      return true
    },
  })
}

/** Resolves to `undefined` when `signal` aborts. Rejects as `followLog` does. */
export async function followDeployment(
  client: Client,
  log: Omit<FollowedLog, 'query'>,
): Promise<Deployment | undefined> {
  const { params, signal, limits = usualLimits } = log
  const patience = patienceWith(log)
  const query = { stream: 'build', tail: '10000' } as const
  const read = (connection: AbortSignal) => client.deployments.get({ params, signal: connection })
  const source: LogSource = {
    open: (headers, connection) => client.deployments.logs({ params, query, headers, signal: connection }),
    isAlive: async (connection) => (await read(connection)).status === 'building',
  }
  let isFollowed = false
  while (!signal.aborted) {
    if (!isFollowed) await followLines(log, patience, source)
    isFollowed = true
    if (signal.aborted) break
    try {
      const deployment = await unlessSilent(read, signal, limits)
      patience.answered()
      if (deployment.status !== 'building') return deployment
      isFollowed = false
    } catch (error) {
      if (signal.aborted) break
      patience.failed(error)
    }
    await sleepUntilAborted(limits.reconnectMs, signal)
  }
  return undefined
}

type Following = Pick<FollowedLog, 'print' | 'say' | 'signal' | 'limits'>

interface LogSource {
  readonly open: (headers: Readonly<Record<string, string>>, signal: AbortSignal) => Promise<Response>
  /**
   * Called when the log is silent or the connection breaks. Resolves to true when the server answers and more lines may
   * come.
   */
  readonly isAlive: (signal: AbortSignal) => Promise<boolean>
}

async function followLines(
  { print, signal, limits = usualLimits }: Following,
  patience: Patience,
  { open, isAlive }: LogSource,
): Promise<void> {
  let lastEventId = ''
  let release: string | undefined
  /** Resolves to true when the log ends, and to false when only the connection ends. */
  const read = async (connection: AbortSignal, refresh: () => void): Promise<boolean> => {
    // An open connection does not prove that the server lives: a server or proxy may accept it and send nothing.
    const alive = () => {
      refresh()
      patience.answered()
    }
    const headers = {
      accept: 'text/event-stream',
      ...(lastEventId === '' ? {} : { 'last-event-id': lastEventId }),
    }
    const response = await open(headers, connection)
    if (!response.headers.get('content-type')?.startsWith('text/event-stream')) throw foreignAnswer(response)
    const events = (response.body ?? new ReadableStream())
      .pipeThrough(new TextDecoderStream())
      .pipeThrough(new EventSourceParserStream({ onComment: alive }))
    for await (const { id, event, data } of events) {
      alive()
      if (event === 'end') return true
      lastEventId = id ?? lastEventId
      const line = lineOf(data)
      if (line.release !== release) print(`--- ${line.release} ---`)
      release = line.release
      print(withProcess(line.process, line.text))
    }
    return false
  }
  while (!signal.aborted) {
    try {
      if (await unlessSilent(read, signal, limits)) return
    } catch (error) {
      // A proxy may buffer a quiet log with its comments.
      const isQuiet =
        reasonOfSilence(error) !== undefined && (await unlessSilent(isAlive, signal, limits).catch(() => false))
      if (signal.aborted) return
      if (isQuiet) patience.answered()
      else patience.failed(error)
    }
    await sleepUntilAborted(limits.reconnectMs, signal)
  }
}

async function unlessSilent<T>(
  work: (signal: AbortSignal, refresh: () => void) => Promise<T>,
  signal: AbortSignal,
  { silenceMs }: Limits,
): Promise<T> {
  const silent = new AbortController()
  const timer = setTimeout(() => silent.abort(noAnswer(silenceMs)), silenceMs)
  try {
    return await work(AbortSignal.any([signal, silent.signal]), () => void timer.refresh())
  } finally {
    clearTimeout(timer)
  }
}

interface Patience {
  answered(): void
  /** Throws a refusal, and any error when the server has been silent for too long. */
  failed(error: unknown): void
}

function patienceWith({ say, limits: { patienceMs } = usualLimits }: Following): Patience {
  let since: number | undefined
  return {
    answered() {
      if (since !== undefined) say('the server answers again')
      since = undefined
    },
    failed(error) {
      const reason = reasonOfSilence(error)
      if (reason === undefined) throw error
      if (since === undefined) {
        since = performance.now()
        say(`the server does not answer (${reason}); trying again for at most ${Math.ceil(patienceMs / 60_000)} min`)
      } else if (performance.now() - since > patienceMs) throw error
    },
  }
}

interface Line {
  readonly text: string
  readonly process: string | undefined
  readonly release: string | undefined
}

function lineOf(data: string): Line {
  const { text, process, deployment_id } = Object(JSON.parse(data)) as Readonly<Record<string, unknown>>
  return {
    text: typeof text === 'string' ? text : '',
    process: typeof process === 'string' ? process : undefined,
    release: typeof deployment_id === 'string' ? deployment_id : undefined,
  }
}

/**
 * Returns a line with the name of its instance in front. Lines of the build and of `web.1`, the only instance of most
 * apps, get no name.
 */
export const withProcess = (process: string | undefined, line: string): string =>
  process === undefined || process === 'web.1' || process === 'build' ? line : `${process} | ${line}`

/**
 * Returns a line without control characters, including colours, and with invisible characters made visible, because the
 * line is untrusted.
 */
export const printable = (line: string): string =>
  withVisible(stripVTControlCharacters(line).replace(/[^\P{Cc}\t]/gu, ''))
