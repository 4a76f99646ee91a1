import type { Command } from 'commander'
import { exit } from './clean-up.ts'
import { Ended } from './command-error.ts'

/** Runs the program with the arguments of this process; an error becomes a line and the exit status 1. */
export async function run(program: Command): Promise<void> {
  // The reader of a pipe has ended, such as `head`, and wants no more.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    void exit()
  })
  // Nobody reads what the command says beside its result, which may still be on the way.
  process.stderr.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
  })
  try {
    await program.parseAsync()
  } catch (error) {
    const status = reportError(error)
    if (error instanceof Ended) {
      // A pipe takes what is written at the pace of its reader. Who presses Ctrl+C does not wait for that.
      if (status !== 130) await Promise.all([process.stdout, process.stderr].map(written))
      // Standard input and connections would keep the process.
      process.exit(status)
    }
    process.exitCode = status
    // Nobody may read the message.
    setTimeout(() => process.exit(), 2_000).unref()
  }
}

/** Prints why a command has ended, unless it has said so itself. Returns the exit status. */
export function reportError(error: unknown): number {
  if (error instanceof Ended) return error.status
  process.stderr.write(`fairlead: ${textOf(error)}\n`)
  return 1
}

function textOf(error: unknown): string {
  const { code, path } = Object(error) as Partial<NodeJS.ErrnoException>
  if (code === 'EACCES' && path !== undefined) {
    return `this user may not open ${path}. What belongs to a server can be opened by the user of the server, and by root.`
  }
  return error instanceof Error ? error.message : String(error)
}

/** Resolves when all that was written to a stream has been taken. */
const written = (stream: NodeJS.WriteStream): Promise<void> => new Promise((done) => stream.write('', () => done()))
