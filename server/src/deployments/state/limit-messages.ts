import { type ExceededLimit, mostOpenFiles, mostProcesses } from '../../runtimes/limits.ts'

/** Says which limit ended a build or an app, how much it used, and what its owner can do. */
export function limitMessage({ code, allowed, used }: ExceededLimit, what: 'build' | 'app'): string {
  if (code === 'too_many_processes') {
    return `The ${what} reached the ${allowed} processes and threads that it may have. Let it start fewer.`
  }
  const whose = what === 'build' ? 'that each build may use here' : 'that the plan of its project allows'
  const seen = used === null ? '' : `: it used ${megabytes(used)} when it was ended`
  const advice =
    what === 'build'
      ? 'Let it need less, for example by fewer workers, or ask the operator for a higher FAIRLEAD_BUILD_MEMORY_MB.'
      : 'Let it need less, or give the project a larger plan.'
  return `The ${what} needed more than the ${megabytes(allowed)} of memory ${whose}${seen}. ${advice}`
}

const megabytes = (bytes: number): string => `${Math.round(bytes / 1_000_000)} MB`

const more = 'More needs a larger plan for an app, and a higher FAIRLEAD_BUILD_MEMORY_MB of the operator for a build.'

/** Limits that end no process from outside: programs meet them, or have set them themselves, and say so in their output. */
const told: readonly { readonly pattern: RegExp; readonly advice: (lines: readonly string[]) => string }[] = [
  {
    pattern: /JavaScript heap out of memory|JS heap out of memory|ERR_WORKER_OUT_OF_MEMORY/,
    advice: (lines) =>
      `Node reached the limit of its own heap${heapOf(lines)}, which is two thirds of the memory that is allowed unless ` +
      `the variable NODE_OPTIONS sets another (--max-old-space-size, in MB). Let it need less, or set that higher. ${more}`,
  },
  {
    pattern: /java\.lang\.OutOfMemoryError: (?!unable to create)/,
    advice: () =>
      `Java reached the limit of its own heap: the variable JAVA_TOOL_OPTIONS sets another (-XX:MaxRAMPercentage, -Xmx). ${more}`,
  },
  {
    pattern: /Allowed memory size of \d+ bytes exhausted/,
    advice: () => `PHP reached its own limit of memory: memory_limit in its settings. ${more}`,
  },
  {
    pattern: /\bE[MN]FILE\b|too many open files/i,
    advice: () =>
      `It may have ${mostOpenFiles} files and connections open at once, in each process. Let it close more of them.`,
  },
  {
    pattern:
      /(spawn|fork|clone|thread)\S*.*(EAGAIN|Resource temporarily unavailable)|can't start new thread|unable to create native thread/i,
    advice: () =>
      `It may have ${mostProcesses} processes and threads. Let it start fewer, for example by fewer workers.`,
  },
  {
    pattern:
      /(ENOSPC|No space left on device).*(\/tmp|\/dev\/shm|\/run)\b|(\/tmp|\/dev\/shm|\/run)\/.*No space left on device/i,
    advice: () =>
      'Its /tmp, /dev/shm and /run are in memory and hold 64 MiB each. Let it write to the folder in the variable TMPDIR.',
  },
]

/** Says which limit the last lines of an output tell of, and what can be done; `null` when they tell of none. */
export function limitInOutput(lines: readonly string[]): string | null {
  const found = told.find(({ pattern }) => lines.some((line) => pattern.test(line)))
  return found === undefined ? null : found.advice(lines)
}

/** Returns the size of the heap before Node's last attempt to free some, in words; Node prints its attempts at the end. */
function heapOf(lines: readonly string[]): string {
  const sizes = lines.flatMap((line) => /(?:Mark-Compact|Scavenge).*?\s([\d.]+) \([\d.]+\) -> /.exec(line)?.[1] ?? [])
  const last = sizes.at(-1)
  return last === undefined ? '' : ` when that had ${Math.round(Number(last))} MB`
}
