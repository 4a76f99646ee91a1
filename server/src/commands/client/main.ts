import type { Command } from 'commander'
import { exit } from './clean-up.ts'
import { Ended } from './command-error.ts'

/** Runs the program with the arguments of this process. An error becomes one line and the exit status 1. */
export async function run(program: Command): Promise<void> {
  // The reader, such as `head`, has closed the pipe.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    void exit()
  })
  // Standard output may still have a reader.
  process.stderr.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
  })
  try {
    await program.parseAsync()
  } catch (error) {
    const status = reportError(error)
    if (error instanceof Ended) {
      // Readers of pipes may be slow, but Ctrl+C does not wait.
      if (status !== 130) await Promise.all([process.stdout, process.stderr].map(written))
      // Standard input and connections would keep the process alive.
      process.exit(status)
    }
    process.exitCode = status
    // The message may have no reader.
    setTimeout(() => process.exit(), 2_000).unref()
  }
}

/** Prints why a command has failed, unless the command has already printed it. Returns the exit status. */
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

const written = (stream: NodeJS.WriteStream): Promise<void> => new Promise((done) => stream.write('', () => done()))
