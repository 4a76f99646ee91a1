import { price } from '@shop/prices'
import Fastify from 'fastify'

const fastify = Fastify({ logger: true })

fastify.get('/', async () => ({ price: price(3) }))

await fastify.listen({ port: Number(process.env.PORT ?? 3000) })
