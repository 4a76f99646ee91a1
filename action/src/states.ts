/** Names of the values that the main step passes to the post step by `saveState`. */
export const states = {
  /** Set once the main step has started, so the next start is the post step, which cleans up. */
  started: 'started',
  /** The id of the deployment at Fairlead. */
  deployment: 'deployment',
  /** The id of the deployment at GitHub. */
  gitHubDeployment: 'github-deployment',
  /** The outcome of the deployment that could not be shown at GitHub, as JSON. */
  gitHubEnd: 'github-end',
  /** The exchanged keys, which the post step must end, as a JSON array. */
  keys: 'keys',
  /** Set once the main step has finished, so that there is nothing to cancel. */
  ended: 'ended',
} as const
