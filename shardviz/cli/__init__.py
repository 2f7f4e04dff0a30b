"""The command line: `verbs` says what there is to do, the files beside it do what is no drawing and no arithmetic."""
