import { nodeApp } from '../../harness/repository.ts'

/** An app that writes to its log, and returns its variables at /variables. */
export function loggingApp(answer: string): Record<string, string> {
  return {
    ...nodeApp(answer),
    'server.js': `console.log('shop is open')
const { GREETING, LEVEL, COLOUR } = process.env
require('node:http').createServer((request, response) => {
  response.end(request.url === '/variables' ? JSON.stringify([GREETING, LEVEL, COLOUR]) : ${JSON.stringify(answer)})
}).listen(process.env.PORT)
`,
  }
}
