/** An app, by the parameters of its page. */
export interface AppOfPage {
  readonly projectId: string
  readonly appId: string
}

/** The parameters of an operation of the API on the app. */
export const paramsOf = ({ projectId, appId }: AppOfPage) => ({ project_id: projectId, app_id: appId })
