import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { api } from '../../../../data/client.ts'
import { appQuery } from '../../../../data/queries.ts'
import { TextField } from '../../../../ui/forms/field.tsx'
import { Form } from '../../../../ui/forms/form.tsx'
import { textOf } from '../../../../ui/forms/values.ts'
import { Panel } from '../../../../ui/page/page.tsx'
import { QueryView } from '../../../../ui/page/query-view.tsx'
import type { AppOfPage } from '../app-of-page.ts'

/** Renames an app, whose address stays. */
export function RenameApp({ projectId, appId }: AppOfPage) {
  const app = useQuery(appQuery(projectId, appId))
  const queryClient = useQueryClient()
  const rename = useMutation({
    mutationFn: (values: FormData) =>
      api.apps.update({ params: { project_id: projectId, id: appId }, body: { name: textOf(values, 'name') } }),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: ['projects', projectId] }),
  })
  return (
    <Panel title="Name of the app">
      <QueryView query={app} label="the app">
        {({ name, url }) => (
          <div className="grid max-w-xl gap-3">
            <Form mutation={rename} saved={{ name }} submit="Rename">
              <TextField label="Name" name="name" autoComplete="off" />
            </Form>
            <p className="text-muted">
              Its address stays <span className="break-all">{url}</span>, and so do its releases, variables and
              schedules. Deploy under the new name from then on, also in workflows: a deployment of the old name makes
              another app.
            </p>
          </div>
        )}
      </QueryView>
    </Panel>
  )
}
