import { Link } from '@tanstack/react-router'
import { buttonClass } from '../ui/controls/button.tsx'
import { Page } from '../ui/page/page.tsx'
import { Empty } from '../ui/page/states.tsx'

export function NotFound() {
  return (
    <Page title="Not found">
      <Empty title="There is no page at this address.">
        <Link to="/projects" className={buttonClass()}>
          Go to projects
        </Link>
      </Empty>
    </Page>
  )
}
