import { useParams } from '@tanstack/react-router'
import { GitCredentials } from './git-credentials.tsx'
import { RenameApp } from './rename-app.tsx'
import { Volumes } from './volumes.tsx'

/** The settings of an app. */
export function Settings() {
  const { projectId, appId } = useParams({ from: '/layout/projects/$projectId/apps/$appId' })
  return (
    <>
      <RenameApp projectId={projectId} appId={appId} />
      <Volumes projectId={projectId} appId={appId} />
      <GitCredentials projectId={projectId} appId={appId} />
    </>
  )
}
