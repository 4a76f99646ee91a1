import { expect, it } from 'vitest'
import { operations } from '../../../server/src/contract/operations.ts'
import { openApiDocument } from '../../../server/src/http/reference/openapi.ts'

it('names only operations that exist', () => {
  const names = new Set<string>(operations.map(({ name }) => name))
  const resources = new Set([...names].map((name) => name.slice(0, name.indexOf('.'))))
  const mentioned = [...JSON.stringify(openApiDocument()).matchAll(/`([A-Za-z]+)\.([A-Za-z]+)`/g)]
    .filter(([, resource = '']) => resources.has(resource))
    .map(([, resource, member]) => `${resource}.${member}`)
  expect(mentioned).not.toEqual([])
  expect(mentioned.filter((name) => !names.has(name))).toEqual([])
})
