import { parseArgs } from 'node:util'
import { temporaryDirectory } from '../test/harness/temporary.ts'
import { runStory } from './story.ts'
import { createTerminal } from './terminal.ts'

/**
 * `npm run demo`: runs all steps in a temporary directory and keeps the app running until Ctrl+C.
 * `npm run demo -- --once` exits after the last step. The status is 0 when all steps succeeded, 1 otherwise.
 */
const { values } = parseArgs({ options: { once: { type: 'boolean', default: false } } })
const terminal = createTerminal(process.stdout)
const interrupted = new Promise<void>((done) => {
  // `on` instead of `once`: through npm, Ctrl+C sends the signal twice, and the second one must not interrupt the cleanup.
  process.on('SIGINT', () => done())
  process.on('SIGTERM', () => done())
})
const start = performance.now()

const running = new AsyncDisposableStack()
try {
  const directory = running.use(await temporaryDirectory())
  const url = await Promise.race([runStory(terminal, directory.path, running), interrupted])
  if (url !== undefined) {
    terminal.line()
    terminal.line(`  All steps succeeded in ${((performance.now() - start) / 1000).toFixed(1)} s.`)
    if (!values.once) {
      terminal.line(`  The app keeps running at ${url}. Press Ctrl+C to stop everything.`)
      await interrupted
    }
  }
} catch {
  // The failed step has printed the error already.
  process.exitCode = 1
} finally {
  terminal.line()
  terminal.line('  Stopping the apps, the server and its database, and removing the temporary directory.')
  await running.disposeAsync()
}
