import { describe, expect, test } from 'vitest'
import { limitInOutput, limitMessage, withLastLines } from '../../../server/src/features/deployments/failure.ts'

describe('a limit that ended a build or an app', () => {
  test('is named with the limit and the usage, and with what to do', () => {
    expect(limitMessage({ code: 'out_of_memory', allowed: 512e6, used: 553.4e6 }, 'app')).toBe(
      'The app needed more than the 512 MB of memory that the plan of its project allows: it used 553 MB when it was ended. ' +
        'Let it need less, or give the project a larger plan.',
    )
    expect(limitMessage({ code: 'out_of_memory', allowed: 2e9, used: 2104e6 }, 'build')).toBe(
      'The build needed more than the 2000 MB of memory that each build may use here: it used 2104 MB when it was ended. ' +
        'Let it need less, for example by fewer workers, or ask the operator for a higher FAIRLEAD_BUILD_MEMORY_MB.',
    )
    expect(limitMessage({ code: 'too_many_processes', allowed: 512, used: null }, 'app')).toContain('512 processes')
  })
})

/** The end of Node 24.21's output when its heap is full. */
const fullHeap = [
  '<--- Last few GCs --->',
  ' =[6833:0x3fc57000]     1197 ms: Mark-Compact (reduce) 98.4 (100.0) -> 97.6 (99.4) MB, pooled: 0 MB, 198.77 / 0.00 ms',
  'FATAL ERROR: Ineffective mark-compacts near heap limit Allocation failed - JavaScript heap out of memory',
  '----- Native stack trace -----',
  ...Array.from({ length: 25 }, (_, at) => `${at + 1}: 0x931db0  [node]`),
]

describe('a limit that a program reports in its output', () => {
  test.each([
    [
      'Node, its heap',
      fullHeap,
      /Node's heap .*when that had 98 MB.* NODE_OPTIONS .*larger plan.* FAIRLEAD_BUILD_MEMORY_MB/,
    ],
    ['a thread of Node', ['code: ERR_WORKER_OUT_OF_MEMORY'], /NODE_OPTIONS/],
    ['Java', ['java.lang.OutOfMemoryError: Java heap space'], /JAVA_TOOL_OPTIONS/],
    ['PHP', ['Allowed memory size of 134217728 bytes exhausted (tried to allocate 9 bytes)'], /memory_limit/],
    ['open files', ['Error: EMFILE: too many open files, open x'], /8192 files/],
    ['processes of Node', ['Error: spawn /bin/sleep EAGAIN'], /512 processes/],
    ['threads of Java', ['java.lang.OutOfMemoryError: unable to create native thread'], /512 processes/],
    ['threads of Python', ["RuntimeError: can't start new thread"], /512 processes/],
    ['processes of a shell', ['sh: 1: Cannot fork: Resource temporarily unavailable'], /512 processes/],
    ['a folder in memory', ["ENOSPC: no space left on device, write '/tmp/x'"], /TMPDIR/],
  ])('%s', (_, lines, advice) => {
    expect(limitInOutput(lines)).toMatch(advice)
  })

  test.each(['Error: connect EAGAIN', 'Error: no space left', 'listening on /tmp/socket', 'too many requests'])(
    'is not recognised in %j',
    (line) => {
      expect(limitInOutput([line])).toBeNull()
    },
  )

  test('precedes the last lines, even before a long trace', () => {
    const message = withLastLines('The app ended by SIGABRT.', fullHeap)
    expect(message).toMatch(/^The app ended by SIGABRT\. Node's heap reached its limit/)
    expect(message).not.toContain('FATAL')
    expect(message.split('\n')).toHaveLength(22)
  })
})
