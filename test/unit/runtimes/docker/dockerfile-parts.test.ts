import { expect, it } from 'vitest'
import {
  bytesField,
  numberField,
  readFields,
  textOf,
} from '../../../../server/src/runtimes/docker/dockerfiles/buildkit/fields.ts'
import { parseIgnoreFile } from '../../../../server/src/runtimes/docker/dockerfiles/context/ignore.ts'
import { fullName, imagesIn } from '../../../../server/src/runtimes/docker/dockerfiles/context/images.ts'
import { socketFilter } from '../../../../server/src/runtimes/docker/dockerfiles/daemon/filter.ts'

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
])('the images that a Dockerfile names are found, also by its arguments: %j', (dockerfile, names) => {
  expect([...imagesIn(dockerfile)]).toEqual(names.map(fullName))
})

it('a Dockerfile may name as many images as fit into it', () => {
  expect(imagesIn(`RUN ${',from=a'.repeat(140_000)}`).size).toBe(1)
})

it('messages of BuildKit are read as they were written', () => {
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

it('the filter of sockets is there for the processors that servers have', () => {
  for (const processor of ['x64', 'arm64']) expect(socketFilter(processor)?.length).toBeGreaterThan(0)
  expect(socketFilter('riscv64')).toBeNull()
})
