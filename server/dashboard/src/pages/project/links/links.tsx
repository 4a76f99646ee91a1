import type { ResponseBody } from '@fairlead/server/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link as RouteLink } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../../data/client.ts'
import { linksQuery } from '../../../data/queries.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { ConfirmDialog } from '../../../ui/dialogs/confirm-dialog.tsx'
import { Panel } from '../../../ui/page/page.tsx'
import { QueryView } from '../../../ui/page/query-view.tsx'
import { CreateLink, type Side } from './create-link.tsx'

type Link = ResponseBody<'links.list'>['links'][number]

/** The links of an app to databases, or of a database to apps. */
export function Links({ projectId, side }: { readonly projectId: string; readonly side: Side }) {
  const links = useQuery(linksQuery(projectId))
  const [linking, setLinking] = useState(false)
  const [removing, setRemoving] = useState<Link>()
  const ofApp = side.kind === 'app'
  return (
    <Panel
      title={ofApp ? 'Linked databases' : 'Linked apps'}
      actions={
        <Button size="small" onClick={() => setLinking(true)}>
          {ofApp ? 'Link a database' : 'Link an app'}
        </Button>
      }
    >
      <QueryView query={links} label="the links">
        {({ links: all }) => {
          const own = all.filter((link) => (ofApp ? link.app_id : link.database_id) === side.id)
          if (own.length === 0) return <p className="text-muted">None.</p>
          return (
            <ul className="grid gap-2">
              {own.map((link) => (
                <li key={link.id} className="flex flex-wrap items-center gap-x-3 gap-y-1">
                  <OtherSide projectId={projectId} link={link} ofApp={ofApp} />
                  <span className="min-w-0 flex-1 text-muted">
                    in <code className="break-all">{link.variable}</code>
                  </span>
                  <Button size="small" variant="quiet" onClick={() => setRemoving(link)}>
                    Unlink
                  </Button>
                </li>
              ))}
            </ul>
          )
        }}
      </QueryView>
      {linking && <CreateLink projectId={projectId} side={side} onClose={() => setLinking(false)} />}
      {removing !== undefined && (
        <Unlink projectId={projectId} link={removing} onClose={() => setRemoving(undefined)} />
      )}
    </Panel>
  )
}

interface OtherSideProps {
  readonly projectId: string
  readonly link: Link
  readonly ofApp: boolean
}

function OtherSide({ projectId, link, ofApp }: OtherSideProps) {
  if (ofApp) {
    const params = { projectId, databaseId: link.database_id }
    return (
      <RouteLink
        to="/projects/$projectId/databases/$databaseId"
        params={params}
        className="text-accent hover:underline"
      >
        {link.database_name}
      </RouteLink>
    )
  }
  const params = { projectId, appId: link.app_id }
  return (
    <RouteLink to="/projects/$projectId/apps/$appId/variables" params={params} className="text-accent hover:underline">
      {link.app_name}
    </RouteLink>
  )
}

interface UnlinkProps {
  readonly projectId: string
  readonly link: Link
  readonly onClose: () => void
}

function Unlink({ projectId, link, onClose }: UnlinkProps) {
  const queryClient = useQueryClient()
  const remove = useMutation({
    mutationFn: () => api.links.delete({ params: { project_id: projectId, id: link.id } }),
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ['projects', projectId] })
      onClose()
    },
  })
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Unlink ${link.database_name} from ${link.app_name}?`}
      action="Unlink"
      mutation={remove}
    >
      <p>
        Further releases do not have <code>{link.variable}</code>. What runs keeps it until you apply the change.
      </p>
    </ConfirmDialog>
  )
}
