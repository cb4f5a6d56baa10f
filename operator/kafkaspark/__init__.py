"""``kafkaspark``: the command line for people. It joins the commands of the application and of the operator."""
