import { sayAlive } from '../../platform/alive.ts'

/** Prints a message of the command to standard error, apart from its result. */
export const say = (line: string): void => void process.stderr.write(`fairlead: ${line}\n`)

/** Runs a step that may take long, and shows in the terminal that it still runs. */
export const telling = <T>(what: string, work: () => Promise<T>): Promise<T> => sayAlive({ what, say }, work)
