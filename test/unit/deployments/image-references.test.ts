import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  formatImageReference,
  parseImageReference,
  parseRegistry,
} from '../../../server/src/contract/image-reference.ts'

const digest = `sha256:${'0123456789abcdef'.repeat(4)}`

/** Returns the full reference, or why the reference is not valid. */
function read(text: string): string {
  const parsed = parseImageReference(text)
  return 'problem' in parsed ? `refused: ${parsed.problem}` : formatImageReference(parsed)
}

describe('a reference to an image', () => {
  it.each([
    ['nginx', 'docker.io/library/nginx:latest'],
    ['nginx:1.29', 'docker.io/library/nginx:1.29'],
    ['team/shop', 'docker.io/team/shop:latest'],
    ['docker.io/nginx', 'docker.io/library/nginx:latest'],
    ['index.docker.io/team/shop', 'docker.io/team/shop:latest'],
    ['registry.example/shop:V1.0_rc-1', 'registry.example/shop:V1.0_rc-1'],
    ['registry.example:5000/team/shop', 'registry.example:5000/team/shop:latest'],
    ['localhost/shop', 'localhost/shop:latest'],
    ['127.0.0.1:5000/a/b/c:x', '127.0.0.1:5000/a/b/c:x'],
    [`registry.example/shop@${digest}`, `registry.example/shop@${digest}`],
    [`registry.example/shop:1@${digest}`, `registry.example/shop:1@${digest}`],
    ['a__b/c-d--e/f.g_h', 'docker.io/a__b/c-d--e/f.g_h:latest'],
  ])('%s is %s', (text, whole) => {
    expect(read(text)).toBe(whole)
  })

  it.each([
    ['', 'empty'],
    ['https://registry.example/shop', 'without https://'],
    ['Registry.example/shop', 'lower case'],
    ['registry.example/Shop', 'lower case'],
    ['--all-tags', 'name of an image'],
    ['-registry.example/shop', 'host of a registry'],
    ['registry.example/-shop', 'name of an image'],
    ['registry.example/', 'name of an image'],
    ['registry.example//shop', 'name of an image'],
    ['/shop', 'name of an image'],
    ['registry.example/../shop', 'name of an image'],
    ['registry.example/shop:', 'tag'],
    ['registry.example/shop:-x', 'tag'],
    ['registry.example/shop:a b', 'tag'],
    [`registry.example/shop:${'a'.repeat(129)}`, 'tag'],
    ['registry.example/shop@sha256:abc', 'digest'],
    [`registry.example/shop@${digest.toUpperCase()}`, 'digest'],
    [`registry.example/shop@md5:${'a'.repeat(32)}`, 'digest'],
    [`registry.example/shop@${digest}@${digest}`, 'digest'],
    ['registry.example:70000/shop', 'host of a registry'],
    ['registry.example:0/shop', 'host of a registry'],
    ['[::1]:5000/shop', 'host of a registry'],
    ['registry.example/shop\n', 'name of an image'],
    ['registry.example/shop;id', 'name of an image'],
    ['registry.example/$(id)', 'name of an image'],
    ['0123456789abcdef'.repeat(4), 'name of an image'],
    [`registry.example/${'a'.repeat(250)}`, '255 characters'],
    ['a'.repeat(513), '512 characters'],
  ])('%j is refused', (text, why) => {
    expect(read(text)).toContain(why)
    expect(read(text)).toMatch(/^refused: must /)
  })

  it('of any text has no option, no blank, and one reading', () => {
    const part = fc.string({ unit: fc.constantFrom(...'ab1._-:/@A \n'), maxLength: 30 })
    fc.assert(
      fc.property(part, (text) => {
        const parsed = parseImageReference(text)
        if ('problem' in parsed) return
        const whole = formatImageReference(parsed)
        expect(whole).toMatch(/^[a-z0-9][\w.:/@-]*$/)
        expect(parseImageReference(whole)).toEqual(parsed)
      }),
    )
  })
})

it('a registry is a host with its port', () => {
  expect(['docker.io', 'index.docker.io', 'a.example:5000', 'localhost', '10.0.0.1:1'].map(parseRegistry)).toEqual([
    'docker.io',
    'docker.io',
    'a.example:5000',
    'localhost',
    '10.0.0.1:1',
  ])
  for (const text of ['', 'shop', 'a.example/', 'A.example', '-a.example', 'a.example:', 'a.example:99999', 'a b.c']) {
    expect(parseRegistry(text)).toBeNull()
  }
})
