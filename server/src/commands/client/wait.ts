import { sayAlive } from '../../platform/alive.ts'

/** Does a part of a command that may take long, and tells at the terminal that it goes on. */
export const telling = <T>(what: string, work: () => Promise<T>): Promise<T> =>
  sayAlive({ what, say: (line) => process.stderr.write(`fairlead: ${line}\n`) }, work)
