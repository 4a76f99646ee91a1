class WelcomeController < ApplicationController
  def index; end

  def hello
    render json: { greeting: "Hello, #{params[:name]}" }
  end
end
