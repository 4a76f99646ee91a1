import { useInfiniteQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { appReleasesQuery } from '../../../data/queries.ts'
import { Time } from '../../../ui/display/time.tsx'
import { LogView } from '../log/log-view.tsx'

/** One log of an app over its newest releases. */
export function Logs() {
  const { projectId, appId } = useParams({ from: '/layout/projects/$projectId/apps/$appId/logs' })
  const releases = useInfiniteQuery(appReleasesQuery(projectId, appId, {}))
  const known = releases.data?.pages.flatMap((page) => page.releases)
  return (
    <LogView
      key={appId}
      source={{ projectId, id: appId }}
      describeRelease={(deploymentId) => {
        const release = known?.find(({ id }) => id === deploymentId)
        return (
          <>
            <Link
              to="/projects/$projectId/deployments/$deploymentId"
              params={{ projectId, deploymentId }}
              className="text-accent hover:underline"
            >
              Release {release?.commit?.hash.slice(0, 12) ?? deploymentId}
            </Link>
            {release !== undefined && (
              <span className="truncate">
                &nbsp;{release.commit?.message?.split('\n')[0]} · {release.status} · <Time at={release.created_at} />
              </span>
            )}
          </>
        )
      }}
    />
  )
}
