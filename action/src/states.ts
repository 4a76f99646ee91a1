/** What a step leaves for the one that cleans up behind it, by `saveState`. */
export const states = {
  /** There was a step, so the next one cleans up. */
  started: 'started',
  /** The id of the deployment that the server took. */
  deployment: 'deployment',
  /** The id of the deployment at GitHub. */
  gitHubDeployment: 'github-deployment',
  /** The step has come to its end, and nothing is left to do. */
  ended: 'ended',
} as const
