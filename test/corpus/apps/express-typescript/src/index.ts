import express, { type Request, type Response } from 'express'

const app = express()
const port = process.env.PORT ?? 3000

app.get('/', (_request: Request, response: Response) => {
  response.send('Express with TypeScript')
})

app.listen(port, () => {
  console.log(`listening on ${port}`)
})
