import type { FieldProblem } from '../../contract/errors.ts'
import { invalidRequest } from '../../contract/errors.ts'
import type { BodyOutput } from '../../contract/operations.ts'
import { branchProblem, parseGitUrl } from '../../sources/git-url.ts'
import { allowsFiles, fileProblem } from '../../sources/local-repository.ts'
import { takesToken } from '../../sources/remote.ts'
import type { FileRule } from '../../sources/sources.ts'

export type RepositoryToCheck = Pick<BodyOutput<'deployments.create'>, 'git_url' | 'branch' | 'git_token'>

/** Throws `invalid_request` on a hostile address, branch or token. */
export async function checkSource(
  input: RepositoryToCheck,
  options: {
    /** The repositories of this machine that the account may deploy. */
    readonly files: FileRule
    /** True in local mode alone: tokens may be sent over plain http. */
    readonly allowHttpTokens: boolean
  },
): Promise<void> {
  const problems: FieldProblem[] = []
  // An uploaded source was checked as it arrived.
  if (input.git_url === undefined) return
  const source = parseGitUrl(input.git_url, { allowFile: allowsFiles(options.files) })
  if ('field' in source) problems.push(source)
  const branch = input.branch === undefined ? undefined : branchProblem(input.branch)
  if (branch !== undefined) problems.push({ field: 'branch', message: branch })
  if (!('field' in source)) {
    const problem = source.protocol === 'file' ? await fileProblem(source, options.files) : null
    if (problem !== null) problems.push({ field: 'git_url', message: problem })
    if (input.git_token !== undefined && !takesToken(source, { allowHttp: options.allowHttpTokens })) {
      problems.push({ field: 'git_token', message: 'can be sent to an https address alone' })
    }
  }
  const [first, ...others] = problems
  if (first !== undefined) throw invalidRequest(first, ...others)
}
