import { findProgram } from '../programs.ts'

/** The programs that limit System V memory, semaphores and queues: util-linux's `unshare`, and a shell. */
export interface SystemV {
  readonly unshare: string
  readonly sh: string
}

/**
 * The pages of memory (64 MiB, with pages of 4 KiB), the semaphores as in `/proc/sys/kernel/sem`, and the queues of 16 KiB. The
 * kernel's own limits for a namespace exceed all memory, and no process needs to have it: where no control group counts
 * the kernel's memory, it would not count at all.
 */
const limits = { shmall: '16384', sem: '250 32000 500 128', msgmni: '128' }

/** Its arguments are its only input. */
const script = `echo "$1" > /proc/sys/kernel/shmall && echo "$2" > /proc/sys/kernel/sem &&
echo "$3" > /proc/sys/kernel/msgmni || exit
shift 3
exec "$@"`

/** Finds the programs. Returns `null` where one of them is missing. */
export async function findSystemV(path: string): Promise<SystemV | null> {
  const [unshare, sh] = [await findProgram('unshare', path), await findProgram('sh', path)]
  return unshare === null || sh === null ? null : { unshare, sh }
}

/** Returns the arguments of `unshare` for a namespace of users in which the caller is root. */
export const asRoot: readonly string[] = ['--user', '--map-root-user']

/**
 * Returns the program that becomes the next one in a namespace of its own for System V memory, semaphores and queues, with
 * its arguments. It needs the rights of root, here or in a namespace of users.
 */
export function limitSystemV({ unshare, sh }: SystemV, options: readonly string[] = []): [string, ...string[]] {
  return [unshare, '--ipc', ...options, '--', sh, '-c', script, 'sh', limits.shmall, limits.sem, limits.msgmni]
}
