const { createServer } = require('node:http')
const { version } = require('./version.json')

createServer((_request, response) => {
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ greeting: process.env.GREETING, version }))
}).listen(process.env.PORT, () => console.log(`listening on ${process.env.PORT}`))
