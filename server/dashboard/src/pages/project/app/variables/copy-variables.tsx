import { useQuery } from '@tanstack/react-query'
import { api } from '../../../../data/client.ts'
import { appsQuery } from '../../../../data/queries.ts'
import { Dialog } from '../../../../ui/dialogs/dialog.tsx'
import { SelectField } from '../../../../ui/forms/field.tsx'
import { Form } from '../../../../ui/forms/form.tsx'
import { textOf } from '../../../../ui/forms/values.ts'
import { QueryView } from '../../../../ui/page/query-view.tsx'
import { type AppOfPage, paramsOf } from '../app-of-page.ts'
import { useChange } from './use-change.ts'

/** Copies the variables of another app of the project. */
export function CopyVariables({ app, onClose }: { readonly app: AppOfPage; readonly onClose: () => void }) {
  const apps = useQuery(appsQuery(app.projectId))
  const copy = useChange(
    app,
    (values: FormData) => api.variables.copy({ params: paramsOf(app), body: { from: textOf(values, 'from') } }),
    onClose,
  )
  return (
    <Dialog
      open
      onClose={onClose}
      title="Copy variables"
      description="Those of the same names are replaced. Nothing is deployed until you apply the change."
    >
      <QueryView query={apps} label="the apps">
        {({ apps }) => (
          <Form mutation={copy} submit="Copy" onCancel={onClose}>
            <SelectField label="App" name="from">
              {apps
                .filter(({ id }) => id !== app.appId)
                .map(({ id, name }) => (
                  <option key={id} value={id}>
                    {name}
                  </option>
                ))}
            </SelectField>
          </Form>
        )}
      </QueryView>
    </Dialog>
  )
}
