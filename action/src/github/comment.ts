import type { Rest } from './rest.ts'

/** Returns the first line of the comment for an app: an HTML comment, which the encoded names cannot close. */
export function markerOf(projectId: string, name: string): string {
  return `<!-- fairlead:${encodeURIComponent(projectId)}:${encodeURIComponent(name)} -->`
}

/** Updates the comment of a pull request that has this marker. Without one, creates it if `mayCreate` is true. */
export async function writeComment(
  rest: Rest,
  options: {
    readonly pullRequest: number
    readonly marker: string
    readonly text: string
    readonly mayCreate: boolean
  },
): Promise<void> {
  const { pullRequest, marker } = options
  const body = `${marker}\n${options.text}`
  const id = await findComment(rest, pullRequest, marker)
  if (id !== undefined) await rest.request('PATCH', `/issues/comments/${id}`, { body })
  else if (options.mayCreate) await rest.request('POST', `/issues/${pullRequest}/comments`, { body })
}

async function findComment(rest: Rest, pullRequest: number, marker: string): Promise<number | undefined> {
  for await (const comments of rest.pages(`/issues/${pullRequest}/comments?per_page=100`)) {
    for (const comment of comments) {
      const { id, body } = Object(comment) as { id?: unknown; body?: unknown }
      // At the start only: a reply that quotes the comment contains the marker further down.
      if (typeof id === 'number' && typeof body === 'string' && body.startsWith(marker)) return id
    }
  }
  return undefined
}
