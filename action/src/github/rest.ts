import { reasonOf } from '../explain.ts'

/** What it takes to speak to GitHub about the repository. */
export interface GitHubAccess {
  /** Without a slash at its end, such as `https://api.github.com`. */
  readonly apiUrl: string
  readonly token: string
  /** `owner/name`. */
  readonly repository: string
  readonly fetch: typeof fetch
}

/** An answer other than 2xx, or none; `message` tells the reader what to do. */
export class GitHubError extends Error {
  override readonly name = 'GitHubError'
}

export interface Rest {
  /** `path` is relative to the repository. Rejects with `GitHubError`. */
  request(method: 'GET' | 'POST' | 'PATCH', path: string, body?: unknown): Promise<unknown>
  /** All pages of a list, as the `Link` headers lead. */
  pages(path: string): AsyncGenerator<readonly unknown[], void>
}

/** No answer takes longer than this, in milliseconds: nobody waits for GitHub's side of a deployment that is done. */
const requestLimit = 10_000
/** Nobody reads more pages of a hundred than this. */
const mostPages = 30

/** GitHub's REST API, as much of it as is needed (docs.github.com/rest). */
export function createRest({ apiUrl, token, repository, fetch: send }: GitHubAccess): Rest {
  const base = `${apiUrl}/repos/${repository}`

  const ask = async (method: string, url: string, body?: unknown): Promise<Response> => {
    let response: Response
    try {
      response = await send(url, {
        method,
        headers: {
          accept: 'application/vnd.github+json',
          authorization: `Bearer ${token}`,
          'user-agent': 'fairlead-action',
          'x-github-api-version': '2022-11-28',
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        redirect: 'manual',
        signal: AbortSignal.timeout(requestLimit),
      })
    } catch (error) {
      throw new GitHubError(`GitHub cannot be reached: ${reasonOf(error)}`)
    }
    if (!response.ok) throw new GitHubError(await explainRefusal(response))
    return response
  }

  const json = async (response: Response): Promise<unknown> => {
    try {
      return await response.json()
    } catch {
      throw new GitHubError('GitHub gave an answer that is not JSON.')
    }
  }

  return {
    request: async (method, path, body) => json(await ask(method, base + path, body)),
    async *pages(path) {
      let url: string | undefined = base + path
      for (let page = 0; url !== undefined && page < mostPages; page++) {
        const response: Response = await ask('GET', url)
        const items = await json(response)
        yield Array.isArray(items) ? items : []
        url = nextPage(response, apiUrl)
      }
    },
  }
}

/** The token is sent to GitHub's API alone, wherever a header leads. */
function nextPage(response: Response, apiUrl: string): string | undefined {
  const link = /<([^>]*)>; *rel="next"/.exec(response.headers.get('link') ?? '')?.[1]
  return link !== undefined && URL.canParse(link) && new URL(link).origin === new URL(apiUrl).origin ? link : undefined
}

async function explainRefusal(response: Response): Promise<string> {
  const { status, headers } = response
  const accepted = headers.get('x-accepted-github-permissions')
  const limited = status === 429 || headers.get('x-ratelimit-remaining') === '0' || headers.has('retry-after')
  const said = await response.json().then(
    (body) => String((Object(body) as { message?: unknown }).message ?? ''),
    () => '',
  )
  if (limited) return `GitHub takes no more requests of this token for now (status ${status}).`
  // GitHub answers 404 where a token may not even see that there is something.
  if ((status === 403 || status === 404) && accepted) {
    return `the token lacks a permission. Give the job \`permissions\`: ${permissionsOf(accepted)}.`
  }
  return `GitHub answered with status ${status}${said === '' ? '' : `: ${said}`}.`
}

/** `pull_requests=write,contents=read; issues=write` as a workflow has it: of several ways, one is enough. */
function permissionsOf(header: string): string {
  const ways = header
    .split(';')
    .map((way) => way.trim().replaceAll('_', '-').replaceAll('=', ': ').replace(/, */g, ', '))
  return ways.map((way) => `{ ${way} }`).join(' or ')
}
