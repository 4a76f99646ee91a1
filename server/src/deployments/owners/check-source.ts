import type { FieldProblem } from '../../contract/errors.ts'
import { invalidRequest } from '../../contract/errors.ts'
import type { BodyOutput } from '../../contract/operations.ts'
import { branchProblem, isLocalRepository, parseGitUrl } from '../../sources/git-url.ts'
import { takesToken } from '../../sources/remote.ts'

/** Throws `invalid_request` on a hostile address, branch or token. */
export async function checkSource(
  input: BodyOutput<'deployments.create'>,
  options: {
    /** True in local mode alone: `file:` addresses may be deployed, and tokens sent over plain http. */
    readonly allowFile: boolean
  },
): Promise<void> {
  const problems: FieldProblem[] = []
  const source = parseGitUrl(input.git_url, options)
  if ('field' in source) problems.push(source)
  const branch = input.branch === undefined ? undefined : branchProblem(input.branch)
  if (branch !== undefined) problems.push({ field: 'branch', message: branch })
  if (!('field' in source)) {
    if (source.protocol === 'file' && !(await isLocalRepository(source))) {
      problems.push({ field: 'git_url', message: 'there is no git repository at this path' })
    }
    if (input.git_token !== undefined && !takesToken(source, { allowHttp: options.allowFile })) {
      problems.push({ field: 'git_token', message: 'can be sent to an https address alone' })
    }
  }
  const [first, ...others] = problems
  if (first !== undefined) throw invalidRequest(first, ...others)
}
