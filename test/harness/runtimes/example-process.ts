import { createServer } from 'node:http'
import type { Readable } from 'node:stream'
import { staticServerName } from '../../../server/src/platform/toolchain.ts'
import type { Exit } from '../../../server/src/runtimes/runtime.ts'

/** The environment of a behaviour of `conformingApp` that runs inside the test's process. */
interface Surroundings {
  readonly args: readonly string[]
  readonly variables: Readonly<Record<string, string>>
  readonly directory: string
  readonly stdin: Readable | null
  readonly print: (text: string) => Promise<void>
  readonly printError: (text: string) => Promise<void>
  /** Replaces the default reaction to the request to end. */
  readonly onTerminate: (react: () => void) => void
  readonly listen: (port: number) => Promise<void>
  readonly exit: (code: number) => void
}

export interface ExampleProcess {
  readonly exited: Promise<Exit>
  /** The ports that it listens on. */
  readonly ports: ReadonlySet<number>
  readonly isRunning: () => boolean
  readonly terminate: () => void
  readonly kill: () => void
}

type Behaviour = (surroundings: Surroundings) => Promise<void> | void

const listens: Behaviour = async ({ variables, listen, print, onTerminate, exit }) => {
  onTerminate(async () => {
    await print('goodbye\n')
    exit(0)
  })
  await listen(Number(variables['PORT']))
}

/** The behaviours of `conformingApp`. */
const behaviours: Readonly<Record<string, Behaviour>> = {
  listens,
  'ignores-sigterm': async ({ variables, listen, print, onTerminate }) => {
    onTerminate(() => void print('no\n'))
    await listen(Number(variables['PORT']))
  },
  'listens-elsewhere': ({ variables, listen }) => listen(Number(variables['PORT']) + 1),
  waits: ({ print }) => print('waiting\n'),
  exits: ({ args, exit }) => exit(Number(args[0])),
  variables: async ({ variables: { PORT, GREETING }, print, exit }) => {
    await print(`${JSON.stringify({ PORT, GREETING })}\n`)
    exit(0)
  },
  writes: async ({ args: [file = '', bytes], directory, exit }) => {
    const { writeFile } = await import('node:fs/promises')
    await writeFile(`${directory}/${file}`, Buffer.alloc(Number(bytes), 1))
    exit(0)
  },
  echoes: async ({ stdin, print, printError, exit }) => {
    await printError('an error line\n')
    for await (const chunk of stdin ?? []) await print(String(chunk))
    exit(3)
  },
}

/** Starts `node app.js <behaviour> …`, or a substitute for a static site. Any other command "does not exist". */
export function startExample(
  argv: readonly string[],
  options: Pick<Surroundings, 'variables' | 'directory' | 'stdin' | 'print' | 'printError'>,
): ExampleProcess {
  const [program = '', file, name = '', ...args] = argv
  const ended = Promise.withResolvers<Exit>()
  const over = new AbortController()
  const ports = new Set<number>()
  const end = (code: number | null, signal: string | null) => {
    if (over.signal.aborted) return
    over.abort()
    ports.clear()
    ended.resolve({ code, signal, exceeded: null })
  }
  let react = () => end(null, 'SIGTERM')
  const { print, variables } = options
  const listen = async (port: number) => {
    const { PORT, GREETING } = variables
    const server = createServer((_, response) => response.end(JSON.stringify({ PORT, GREETING })))
    over.signal.addEventListener('abort', () => server.close().closeAllConnections())
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
    if (!over.signal.aborted) ports.add(port)
    await print('ready\n')
  }
  const isSite = program === staticServerName
  const behaviour =
    program === 'node' && file === 'app.js' ? behaviours[name] : isSite ? behaviours['waits'] : undefined
  const onTerminate = (reaction: () => void) => {
    react = reaction
  }
  const run = async () => {
    if (behaviour !== undefined) {
      return behaviour({ ...options, args, onTerminate, listen, exit: (code) => end(code, null) })
    }
    await options.printError(`${program}: command not found\n`)
    end(127, null)
  }
  run().catch(() => end(1, null))
  return {
    exited: ended.promise,
    ports,
    isRunning: () => !over.signal.aborted,
    terminate: () => react(),
    kill: () => end(null, 'SIGKILL'),
  }
}
