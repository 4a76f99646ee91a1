import type { ResponseBody } from '../contract/operations.ts'

interface Named {
  readonly id: string
  readonly name: string
}

interface InProject extends Named {
  readonly project_id: string
}

type Answer = ResponseBody<'account.search'>
type Found = Answer['found'][number]

const most = 50

/**
 * Finds items that have each word of a text in their name or in the name of their project. Keeps the order of each
 * kind, except that items with all words in their own name come first.
 */
export function findByWords(
  text: string,
  all: {
    readonly projects: readonly Named[]
    readonly apps: readonly InProject[]
    readonly databases: readonly InProject[]
  },
): Answer {
  const words = text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '')
  const projectNames = new Map(all.projects.map(({ id, name }) => [id, name]))
  const listed = (kind: Found['kind'], items: readonly InProject[]) =>
    items
      .map(({ id, name, project_id }): Found => {
        return { kind, id, name, project_id, project_name: projectNames.get(project_id) ?? '' }
      })
      .filter((each) => matches(words, each))
      .sort((one, other) => Number(isNamed(words, other.name)) - Number(isNamed(words, one.name)))
  const kinds = [
    listed(
      'project',
      all.projects.map((each) => ({ ...each, project_id: each.id })),
    ),
    listed('app', all.apps),
    listed('database', all.databases),
    listed(
      'storage',
      all.projects.map(({ id }) => ({ id, name: 'Storage', project_id: id })),
    ),
  ]
  return {
    found: kinds.flatMap((items) => items.slice(0, most)),
    complete: kinds.every((items) => items.length <= most),
  }
}

const matches = (words: readonly string[], { name, project_name }: Found): boolean =>
  isNamed(words, `${name}\n${project_name}`)

function isNamed(words: readonly string[], name: string): boolean {
  const lower = name.toLowerCase()
  return words.every((word) => lower.includes(word))
}
