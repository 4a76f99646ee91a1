import type { Repository } from './octokit.ts'

/** The maximum number of pages, of a hundred comments each, in which the comment is searched. */
const maximumPages = 30

/** Returns the first line of the comment for an app: an HTML comment, which the encoded names cannot close. */
export function markerOf(projectId: string, name: string): string {
  return `<!-- fairlead:${encodeURIComponent(projectId)}:${encodeURIComponent(name)} -->`
}

/** Updates our comment with this marker on a pull request. Without a comment, creates it if `mayCreate` is true. */
export async function writeComment(
  { octokit, name }: Repository,
  options: {
    readonly pullRequest: number
    readonly marker: string
    readonly text: string
    readonly mayCreate: boolean
  },
): Promise<void> {
  const { pullRequest, marker } = options
  const body = `${marker}\n${options.text}`
  const { issues } = octokit.rest
  const id = await findComment({ octokit, name }, pullRequest, marker)
  if (id !== undefined) await issues.updateComment({ ...name, comment_id: id, body })
  else if (options.mayCreate) await issues.createComment({ ...name, issue_number: pullRequest, body })
}

async function findComment(
  { octokit, name }: Pick<Repository, 'octokit' | 'name'>,
  pullRequest: number,
  marker: string,
): Promise<number | undefined> {
  const asked = { ...name, issue_number: pullRequest, per_page: 100 }
  let pages = 0
  for await (const { data } of octokit.paginate.iterator(octokit.rest.issues.listComments, asked)) {
    // Only at the start: a reply that quotes the comment contains the marker further down.
    const marked = data.filter(({ body }) => body?.startsWith(marker))
    const found = await firstOwn(octokit, marked)
    if (found !== undefined || ++pages === maximumPages) return found?.id
  }
  return undefined
}

/** Returns the first comment that the owner of the token has written: anybody can begin a comment with the marker. */
async function firstOwn<Comment extends { readonly node_id: string }>(
  octokit: Repository['octokit'],
  comments: readonly Comment[],
): Promise<Comment | undefined> {
  if (comments.length === 0) return undefined
  const { nodes } = await octokit.graphql<{ nodes: readonly ({ viewerDidAuthor?: boolean } | null)[] }>(
    'query ($ids: [ID!]!) { nodes(ids: $ids) { ... on IssueComment { viewerDidAuthor } } }',
    { ids: comments.map(({ node_id }) => node_id) },
  )
  return comments.find((_, at) => nodes[at]?.viewerDidAuthor === true)
}
