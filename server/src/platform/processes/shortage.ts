import { constants } from 'node:os'

/**
 * The machine could not do something now that it can do at other times: it has no descriptors, processes, memory or disk
 * space left, or a program of the platform is missing. No fault of an app: the work is tried again later.
 */
export class ShortageError extends Error {
  override readonly name = 'ShortageError'
}

const codes: readonly unknown[] = ['EMFILE', 'ENFILE', 'EAGAIN', 'ENOMEM', 'ENOSPC', 'ENOBUFS']

/** True for errors that tell of a lack of the machine, by the codes of errno(3). */
export function isShortage(error: unknown): boolean {
  if (error instanceof ShortageError) return true
  return error instanceof Error && 'code' in error && (codes.includes(error.code) || isBeyondQuota(error))
}

/**
 * Returns a handler for reads that decide whether something lives. Errors which mean that the machine is out of descriptors, memory or disk
 * are thrown again, because they say nothing about what is read. Any other error means that there is nothing, and becomes `value`.
 */
export function unlessShort<T>(value: T): (error: unknown) => T {
  return (error) => {
    if (isShortage(error)) throw error
    return value
  }
}

/** True for the error of a file system's quota (EDQUOT), for which Node has a number and no name. */
export function isBeyondQuota(error: unknown): boolean {
  return error instanceof Error && 'errno' in error && error.errno === -constants.errno.EDQUOT
}
