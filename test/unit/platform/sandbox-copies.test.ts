import { readdirSync, readFileSync } from 'node:fs'
import { chmod, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { createFileCopies, type SystemEntry } from '../../../server/src/platform/sandbox/arguments.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

async function prepared() {
  await using cleanup = new AsyncDisposableStack()
  const root = cleanup.use(await temporaryDirectory()).path
  const [etc, directory] = [join(root, 'etc'), join(root, 'copies')]
  await mkdir(etc)
  const owned = cleanup.move()
  return {
    etc,
    directory,
    copies: createFileCopies(directory, etc),
    entry: (name: string): SystemEntry => ({ path: join(etc, name), link: null, part: 'apps' }),
    copied: (name: string) => readFileSync(join(directory, name), 'utf8'),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

it('files become links to copies; folders, links and files that are not world-readable stay unchanged', async () => {
  await using bench = await prepared()
  const { etc, copies, entry } = bench
  await mkdir(join(etc, 'ssl'))
  await writeFile(join(etc, 'hosts'), 'names')
  await writeFile(join(etc, 'ssl', 'openssl.cnf'), 'settings')
  await writeFile(join(etc, 'secret'), 'a token')
  await chmod(join(etc, 'secret'), 0o640)
  await symlink('hosts', join(etc, 'link'))
  const others = [entry('ssl'), { ...entry('link'), link: 'hosts' }, entry('secret'), entry('missing')]
  expect(copies.linked([entry('hosts'), entry('ssl/openssl.cnf'), ...others])).toEqual([
    { ...entry('hosts'), link: '/.etc/hosts' },
    { ...entry('ssl/openssl.cnf'), link: '/.etc/ssl_openssl.cnf' },
    ...others,
  ])
  expect(bench.copied('hosts')).toBe('names')
  expect(bench.copied('ssl_openssl.cnf')).toBe('settings')
  expect(readdirSync(bench.directory).sort()).toEqual(['hosts', 'ssl_openssl.cnf'])
})

it('a file that changed or was replaced is copied again, and the copy of a file that became private is removed', async () => {
  await using bench = await prepared()
  const { etc, copies, entry } = bench
  const [file, fresh] = [join(etc, 'resolv.conf'), join(etc, 'resolv.conf.new')]
  const copyOf = () => {
    copies.linked([entry('resolv.conf')])
    return bench.copied('resolv.conf')
  }
  await writeFile(file, 'nameserver 1')
  expect(copyOf()).toBe('nameserver 1')
  await writeFile(file, 'nameserver 10')
  expect(copyOf()).toBe('nameserver 10')
  await writeFile(fresh, 'nameserver 20')
  await rename(fresh, file)
  expect(copyOf()).toBe('nameserver 20')
  await chmod(file, 0o600)
  expect(copies.linked([entry('resolv.conf')])).toEqual([entry('resolv.conf')])
  expect(readdirSync(bench.directory)).toEqual([])
  await rm(file)
  expect(copies.linked([entry('resolv.conf')])).toEqual([entry('resolv.conf')])
})

it('a sandbox starts without copies where they cannot be written', async () => {
  await using bench = await prepared()
  await writeFile(bench.directory, 'a file in the place of the folder')
  await writeFile(join(bench.etc, 'hosts'), 'names')
  expect(bench.copies.linked([bench.entry('hosts')])).toEqual([bench.entry('hosts')])
})
