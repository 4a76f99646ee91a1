import { sayAlive } from '../../platform/alive.ts'

export const say = (line: string): void => void process.stderr.write(`fairlead: ${line}\n`)

export const telling = <T>(what: string, work: () => Promise<T>): Promise<T> => sayAlive({ what, say }, work)
