import { Readable } from 'node:stream'
import { expect, it } from 'vitest'
import { createProgress } from '../../../../server/src/runtimes/docker/dockerfiles/buildkit.ts'
import { fullName, imagesIn } from '../../../../server/src/runtimes/docker/dockerfiles/context.ts'
import { parseIgnoreFile } from '../../../../server/src/runtimes/docker/dockerfiles/dockerignore.ts'
import {
  bytesField,
  numberField,
  readFields,
  textOf,
} from '../../../../server/src/runtimes/docker/dockerfiles/protobuf.ts'
import { socketFilter } from '../../../../server/src/runtimes/docker/dockerfiles/socket-filter.ts'
import { readJsonLines } from '../../../../server/src/runtimes/docker/streams.ts'

it.each<[string, readonly string[], readonly string[]]>([
  ['*.log', ['a.log', '.log'], ['a/b.log', 'a.logs']],
  ['a', ['a', 'a/b', 'a/b/c'], ['b/a', 'ab']],
  ['/a/', ['a', 'a/b'], ['b/a']],
  ['./a//b/../c', ['a/c'], ['a/b', 'a/b/c']],
  ['*/b', ['a/b', 'a/b/c'], ['b', 'a/c/b']],
  ['**/b', ['b', 'a/b', 'a/c/b', 'b/d'], ['ab', 'a/bc']],
  ['a/**', ['a/b', 'a/b/c'], ['a', 'b/a']],
  ['a/**/b', ['a/b', 'a/c/b', 'a/c/d/b'], ['ab', 'a/cb']],
  ['**', ['a', 'a/b'], []],
  ['a?c', ['abc'], ['ac', 'a/c', 'abbc']],
  ['[a-c]x', ['ax', 'cx'], ['dx', '-x']],
  ['[^a-c]x', ['dx'], ['ax', '/x']],
  ['[x', ['[x'], ['x']],
  ['\\*', ['*'], ['a']],
  ['# a', [], ['a', '# a']],
  [' a \r', ['a'], [' a ']],
  ['a\n!a/b', ['a', 'a/c'], ['a/b', 'a/b/c']],
  ['!a\na', ['a'], []],
  ['**\n!keep\nkeep/*.log', ['a', 'keep/x.log'], ['keep', 'keep/x']],
  ['..', [], ['a']],
  ['\ufeff.env', ['.env'], []],
  ['voilà', ['voilà'], ['voil', 'voil\ufffd']],
  ['voilà\u00a0\u0085', ['voilà'], []],
  ['caf?\n🦊?', ['café', '🦊🦊'], ['caf', '🦊']],
  ['[à-é]\n[🦊]x', ['é', '🦊x'], ['ê', 'Ã', '🦉x']],
])('.dockerignore with %j', (text, ignored, kept) => {
  const rules = parseIgnoreFile(Buffer.from(text))
  expect([...ignored, ...kept].filter(rules.isIgnored)).toEqual(ignored)
})

it.each([
  ['FROM node:22', ['node:22']],
  ['from  --platform=$BUILDPLATFORM docker.io/library/node:22 as build', ['node:22']],
  [`ARG NODE_VERSION=21.1.0\nFROM node:\${NODE_VERSION}-alpine`, ['node:21.1.0-alpine']],
  ['ARG TAG="22" BASE=node:$TAG\nFROM $BASE', ['node:22']],
  [`FROM node:\${TAG:-22}`, ['node:22']],
  ['FROM \\\n  node:22\nCOPY --from=nginx /a /b', ['node:22', 'nginx']],
  ['RUN --mount=type=bind,from=company/tools,target=/tools make', ['company/tools']],
  ['# syntax=docker/dockerfile:1', ['docker/dockerfile:1']],
  ['CMD ["node", "app.js"]', []],
  ['ARG TAG=$TAG$TAG\nFROM node:$OTHER', []],
])('finds the images that a Dockerfile names, also by its arguments: %j', (dockerfile, names) => {
  expect([...imagesIn(dockerfile)]).toEqual(names.map(fullName))
})

it('a Dockerfile may name as many images as fit into it', () => {
  expect(imagesIn(`RUN ${',from=a'.repeat(140_000)}`).size).toBe(1)
})

it('a build may print as much at once as a BuildKit message holds', async () => {
  const printed = 'x'.repeat(16 * 1_048_576 - 100)
  const log = bytesField(3, Buffer.concat([bytesField(1, Buffer.from('step')), bytesField(4, Buffer.from(printed))]))
  const lines = Buffer.from(
    `${JSON.stringify({ id: 'moby.buildkit.trace', aux: log.toString('base64') })}\n{"id":"ü"}\n`,
  )
  const chunks = Array.from({ length: Math.ceil(lines.length / 65_536) }, (_, at) =>
    lines.subarray(at * 65_536, (at + 1) * 65_536),
  )
  const read = readJsonLines<{ readonly id: string; readonly aux?: string }>(Readable.from(chunks))
  const [message, last] = await Readable.from(read).toArray()
  expect(last).toEqual({ id: 'ü' })
  const progress = createProgress()
  expect(progress.read(Buffer.from(message?.aux ?? '', 'base64')).length).toBe(printed.length)
})

it('messages of BuildKit survive a round trip', () => {
  const message = Buffer.concat([
    numberField(1, 300),
    bytesField(2, Buffer.from('text')),
    bytesField(1000, Buffer.alloc(200)),
  ])
  expect([...readFields(message)]).toEqual([
    { number: 1, value: 300n },
    { number: 2, value: Buffer.from('text') },
    { number: 1000, value: Buffer.alloc(200) },
  ])
  expect(textOf(message, 2)).toBe('text')
  expect(() => [...readFields(message.subarray(0, -1))]).toThrow('longer than its message')
  expect(() => [...readFields(Buffer.from([0xff]))]).toThrow('does not end')
})

it('the filter of sockets supports the processors of servers', () => {
  for (const processor of ['x64', 'arm64']) expect(socketFilter(processor)?.length).toBeGreaterThan(0)
  expect(socketFilter('riscv64')).toBeNull()
})
