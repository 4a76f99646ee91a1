import { spawnSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { beginning } from '../../../../server/src/runtimes/docker/output-position.ts'
import { temporaryDirectory } from '../../../harness/temporary.ts'

const record = fileURLToPath(new URL('../../../../server/src/runtimes/docker/output.ts', import.meta.url))

/** Appends 40,000 bytes to a log. The system accepts 4,096 bytes and then no more. */
const program = `
import { open } from 'node:fs/promises'
import { openRecord } from ${JSON.stringify(record)}
const log = await open('log', 'a+')
const output = await openRecord('record', log)
const problem = await output.append(Buffer.alloc(40_000, 'x'), [{ at: 'later', frames: 1 }]).catch((error) => error.code)
console.log(JSON.stringify({ problem, position: output.position }))
`

it('output that a full disk accepts only in part is an error, and no part remains', async () => {
  await using directory = await temporaryDirectory()
  // A file size limit, in blocks of 512 bytes, truncates writes as a full disk does.
  const args = ['-c', 'ulimit -f 8; exec "$0" --input-type=module --eval "$1"', process.execPath, program]
  const { stdout, stderr } = spawnSync('/bin/sh', args, { cwd: directory.path, encoding: 'utf8' })
  expect(stderr).toBe('')
  expect(JSON.parse(stdout)).toEqual({ problem: 'EFBIG', position: beginning })
  expect((await readFile(join(directory.path, 'log'))).length).toBe(0)
})
