Rails.application.routes.draw do
  root 'welcome#index'
  get '/hello/:name', to: 'welcome#hello'
end
