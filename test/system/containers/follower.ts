import { open } from 'node:fs/promises'
import { createContainers } from '../../../server/src/runtimes/docker/calls.ts'
import { createEngine } from '../../../server/src/runtimes/docker/client.ts'
import { createOutputs } from '../../../server/src/runtimes/docker/output.ts'

/*
 * Writes the output of a container into a log, as a server does, until it is killed: `node follower.ts <socket>
 * <server> <folder of records> <container> <log>`.
 */

const [socket = '', server = '', directory = '', container = '', log = ''] = process.argv.slice(2)
const engine = createEngine(socket)
const fence = () => undefined
const containers = createContainers(engine, server, fence)
const outputs = createOutputs({ engine, containers, directory, fence, logger: { warn: () => undefined } })
await using output = await open(log, 'a')
await outputs.follow(container, output)
console.log('follows')
await outputs.written(container)
