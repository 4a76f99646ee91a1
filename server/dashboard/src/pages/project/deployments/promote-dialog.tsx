import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { api } from '../../../data/client.ts'
import { projectsQuery } from '../../../data/queries.ts'
import { Dialog } from '../../../ui/dialogs/dialog.tsx'
import { SelectField, TextField } from '../../../ui/forms/field.tsx'
import { Form } from '../../../ui/forms/form.tsx'
import { textOf } from '../../../ui/forms/values.ts'
import { QueryView } from '../../../ui/page/query-view.tsx'

interface PromoteDialogProps {
  readonly projectId: string
  readonly deploymentId: string
  readonly onClose: () => void
}

/** Releases the files of a deployment in another app, which has its own variables. */
export function PromoteDialog({ projectId, deploymentId, onClose }: PromoteDialogProps) {
  const projects = useQuery(projectsQuery)
  const promote = usePromote(deploymentId)
  return (
    <Dialog
      open
      onClose={onClose}
      title="Promote"
      description="Releases these files in another app, without another build. The variables are those of that app."
    >
      <QueryView query={projects} label="projects">
        {(data) => (
          <Form mutation={promote} submit="Promote" onCancel={onClose}>
            <SelectField label="Project" name="project" defaultValue={projectId}>
              {data.projects.map(({ id, name }) => (
                <option key={id} value={id}>
                  {name}
                </option>
              ))}
            </SelectField>
            <TextField
              label="App"
              name="name"
              autoComplete="off"
              hint="An app of the project, or the name of a new one."
            />
          </Form>
        )}
      </QueryView>
    </Dialog>
  )
}

/** Returns the mutation that creates the deployment and opens its page. */
function usePromote(from_deployment_id: string) {
  const queryClient = useQueryClient()
  const navigate = useNavigate()
  return useMutation({
    mutationFn: async (values: FormData) => {
      const project_id = textOf(values, 'project')
      const body = { name: textOf(values, 'name'), from_deployment_id, env_vars_for: 'app' as const }
      const { id } = await api.deployments.create({ params: { project_id }, body })
      return { projectId: project_id, deploymentId: id }
    },
    onSuccess: async (params) => {
      await queryClient.invalidateQueries({ queryKey: ['projects', params.projectId] })
      await navigate({ to: '/projects/$projectId/deployments/$deploymentId', params })
    },
  })
}
