"""Tasks in the Harbor format (https://www.harborframework.com/docs/tasks), schema 1.0 to 1.4.

task_config, task_folder   one task as it stands on disk
git_source, sources        where tasks come from
rounds                     what is asked for and graded at once: the whole task, or a step
samples                    a task folder as a Sample
preparation, outputs       before and after the agent
box, tampering, processes  what an agent left in the sandbox it is graded in
verifier, rewards, judging from test.sh to a verdict
grading, stepping          one round graded; steps begun, and rolled up into one reward
benchmark                  all of it, in the order of the stages
"""
