import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { appendFileSync, existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename } from 'node:path'
import { runVitest } from './vitest.ts'

/**
 * Finds tests that depend on time: runs single files again and again beside two busy loops, until Ctrl+C: `npm run
 * test:repeat [-- FILE…]`, by default all files except the long tests. The file with the fewest results is next, so a
 * later run continues where an earlier run ended. `test-repeat/results.tsv` gets a line for each: the commit, the file,
 * the result, the seconds and the time. The output of a failure is beside it.
 */

const folder = 'test-repeat'
const results = `${folder}/results.tsv`

const given = process.argv.slice(2)
const files = given.length > 0 ? given : globSync('test/{unit,api,processes,system}/**/*.test.ts').toSorted()
const missing = files.find((file) => !existsSync(file))
if (missing !== undefined) {
  process.stderr.write(`There is no file ${missing}.\n`)
  process.exit(1)
}

mkdirSync(folder, { recursive: true })
const runs = new Map(files.map((file) => [file, 0]))
if (existsSync(results)) {
  for (const line of readFileSync(results, 'utf8').split('\n')) {
    const file = line.split('\t')[1] ?? ''
    if (runs.has(file)) runs.set(file, (runs.get(file) ?? 0) + 1)
  }
}

const loops: readonly ChildProcess[] = [1, 2].map(() =>
  spawn(process.execPath, ['-e', 'for (;;) {}'], { stdio: 'ignore' }),
)
process.on('exit', () => {
  for (const loop of loops) loop.kill('SIGKILL')
})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => process.exit(1))

for (;;) {
  const [file = ''] = [...runs].reduce((least, each) => (each[1] < least[1] ? each : least))
  runs.set(file, (runs.get(file) ?? 0) + 1)
  await runOnce(file)
}

async function runOnce(file: string): Promise<void> {
  const commit = spawnSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).stdout.trim()
  const begin = performance.now()
  const level = file.split('/')[1] ?? ''
  const { code, output } = await runVitest(['run', '--project', level, file], { minutes: 30, quiet: true })
  const seconds = Math.round((performance.now() - begin) / 1000)
  const time = new Date().toISOString()
  const result = code === 0 ? 'passed' : 'failed'
  appendFileSync(results, `${[commit, file, result, seconds, time].join('\t')}\n`)
  process.stdout.write(`${result} ${file} ${seconds} s\n`)
  if (code !== 0) writeFileSync(`${folder}/${basename(file)}-${time}.log`, output)
}
