import { sayAlive } from '../../platform/alive.ts'

/** Prints what the command says itself, beside what it was asked for. */
export const say = (line: string): void => void process.stderr.write(`fairlead: ${line}\n`)

/** Does a part of a command that may take long, and tells at the terminal that it goes on. */
export const telling = <T>(what: string, work: () => Promise<T>): Promise<T> => sayAlive({ what, say }, work)
