import { releaseApp, webSocketLibrary } from '../../harness/releases.ts'

/**
 * Returns the files of an app that answers requests and echoes WebSocket messages. It prints a numbered line four times
 * a second, so that a follower of its log notices missing lines.
 */
export async function steadyApp(): Promise<Record<string, string>> {
  const app = releaseApp(1)
  return {
    ...(await webSocketLibrary()),
    ...app,
    'server.js': `${app['server.js']}
let line = 0
setInterval(() => console.log('line ' + ++line), 250)
`,
  }
}
