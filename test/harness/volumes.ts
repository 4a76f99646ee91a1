/** An app that appends the query of each request to a file in its volume `data`, and answers with the whole file. */
export const keepingApp = (volumes: Readonly<Record<string, string>>): Record<string, string> => ({
  'package.json': JSON.stringify({ name: 'keeping', version: '1.0.0', scripts: { start: 'node server.js' } }),
  'fairlead.json': JSON.stringify({ volumes }),
  'server.js': `const { appendFileSync, readFileSync } = require('node:fs')
const notes = process.env.FAIRLEAD_VOLUME_DATA + '/notes'
require('node:http').createServer((request, response) => {
  appendFileSync(notes, request.url.split('?')[1] ?? '')
  response.end(readFileSync(notes))
}).listen(process.env.PORT)`,
})
