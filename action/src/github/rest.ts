import { reasonOf } from '../explain.ts'

/** The access to the repository's part of GitHub's API. */
export interface GitHubAccess {
  /** Without a slash at its end, such as `https://api.github.com`. */
  readonly apiUrl: string
  readonly token: string
  /** `owner/name`. */
  readonly repository: string
  readonly fetch: typeof fetch
}

/** A missing answer or one other than 2xx. `message` tells the reader what to do. */
export class GitHubError extends Error {
  override readonly name = 'GitHubError'
}

export interface Rest {
  /** `path` is relative to the repository. Rejects with `GitHubError`. */
  request(method: 'GET' | 'POST' | 'PATCH', path: string, body?: unknown): Promise<unknown>
  /** Yields all pages of a list by following the `Link` headers. */
  pages(path: string): AsyncGenerator<readonly unknown[], void>
}

/** Time limit for an answer in milliseconds. Short, because reporting to GitHub must not delay a finished deployment. */
const requestTimeout = 10_000
/** The maximum number of pages, of a hundred items each, that are read of a list. */
const maximumPages = 30

/** Creates a client for the part of GitHub's REST API that is needed here (docs.github.com/rest). */
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
        signal: AbortSignal.timeout(requestTimeout),
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
      for (let page = 0; url !== undefined && page < maximumPages; page++) {
        const response: Response = await ask('GET', url)
        const items = await json(response)
        yield Array.isArray(items) ? items : []
        url = nextPage(response, apiUrl)
      }
    },
  }
}

/** Returns the address of the next page. Addresses at other origins are ignored, so that the token is sent to GitHub only. */
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
  // GitHub answers 404 when the token may not even know that the resource exists.
  if ((status === 403 || status === 404) && accepted) {
    return `the token lacks a permission. Give the job \`permissions\`: ${permissionsOf(accepted)}.`
  }
  return `GitHub answered with status ${status}${said === '' ? '' : `: ${said}`}.`
}

/** Formats `pull_requests=write,contents=read; issues=write` as workflows write it. Any one of the alternatives is enough. */
function permissionsOf(header: string): string {
  const alternatives = header
    .split(';')
    .map((alternative) => alternative.trim().replaceAll('_', '-').replaceAll('=', ': ').replace(/, */g, ', '))
  return alternatives.map((alternative) => `{ ${alternative} }`).join(' or ')
}
