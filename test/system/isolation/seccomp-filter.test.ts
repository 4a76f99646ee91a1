import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { skipped } from '../../harness/ordinary-user.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const script = fileURLToPath(new URL('../../../scripts/seccomp/compile.py', import.meta.url))
const committed = fileURLToPath(new URL('../../../server/assets/seccomp', import.meta.url))
/** The system's Python, for which Debian has the package. */
const python = '/usr/bin/python3'
/** Another version may compile the same rules to other instructions. */
const version = '2.5.4'

const askVersion = `import ctypes, seccomp
class Version(ctypes.Structure): _fields_ = [(name, ctypes.c_uint) for name in ('major', 'minor', 'micro')]
library = ctypes.CDLL('libseccomp.so.2')
library.seccomp_version.restype = ctypes.POINTER(Version)
told = library.seccomp_version().contents
print('%d.%d.%d' % (told.major, told.minor, told.micro), end='')`

const run = promisify(execFile)
const installed = await run(python, ['-c', askVersion], { timeout: 10_000 }).then(
  ({ stdout }) => stdout,
  () => null,
)
const why =
  installed === null
    ? 'python3-seccomp is not installed (apt-get install python3-seccomp)'
    : installed === version
      ? null
      : `libseccomp is ${installed}, not ${version}`
if (why !== null) skipped('the committed filters are those of the lists', why)

test.skipIf(why !== null)('the committed filters match the lists of system calls', async () => {
  await using directory = await temporaryDirectory()
  await run(python, [script, directory.path])
  for (const name of ['x64.bpf', 'arm64.bpf']) {
    expect(await readFile(join(directory.path, name)), name).toEqual(await readFile(join(committed, name)))
  }
})

test('no system call is in both lists', async () => {
  const namesIn = async (file: string) =>
    (await readFile(join(script, '..', file), 'utf8'))
      .split('\n')
      .filter((line) => !line.startsWith('#'))
      .flatMap((line) => line.split(' ').filter(Boolean))
  const [allowed, denied] = [await namesIn('allowed.txt'), await namesIn('denied.txt')]
  expect(allowed.filter((name) => denied.includes(name))).toEqual([])
  expect(new Set([...allowed, ...denied]).size).toBe(allowed.length + denied.length)
})
